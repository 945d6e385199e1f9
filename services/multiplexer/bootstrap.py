"""Builds the multiplexer and runs it."""

import asyncio
from functools import partial

from libs.common import management, runtime, topics
from libs.common.errors import PermanentError
from libs.common.instances import Beacon
from libs.common.kafka import admin, config
from libs.common.kafka.consumer import GroupConsumer
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.resources import Catalog, Resource, decode_resource
from services.multiplexer.adapters.kafka import KafkaRecordLog, abort
from services.multiplexer.domain.position import CommitNote
from services.multiplexer.service import Multiplexer, Outside
from services.multiplexer.settings import MultiplexerSettings

REPORT_INTERVAL_S = 0.05
"""Acknowledgements only move commits and routing records, which are not on an event's way."""


async def run(settings: MultiplexerSettings) -> None:
    """Runs until SIGTERM; raises what ended it otherwise."""
    stop = asyncio.Event()
    catalog = Catalog()
    table = CompactedTable[Resource](
        settings.kafka,
        topics.RESOURCES,
        decode=decode_resource,
        client_id=settings.instance,
        on_change=catalog.apply,
    )
    properties = config.gapless_producer(settings.kafka, client_id=settings.instance)
    async with AckProducer(properties, report_interval_s=REPORT_INTERVAL_S) as producer:
        prefix = settings.kafka.topic_prefix
        records = KafkaRecordLog(producer, topic_prefix=prefix, abort=abort)
        multiplexer = Multiplexer(
            settings,
            Outside(resources=table, subscriptions=catalog, records=records, abort=abort),
            topics_now=partial(commit_note, settings),
        )
        consumer = GroupConsumer(
            settings.kafka,
            [topics.PUBLISHED],
            group=settings.group,
            instance=settings.instance,
            listener=multiplexer,
            on_batch=multiplexer.on_batch,
        )
        multiplexer.read_from(consumer)
        readiness = management.Readiness(stop)
        readiness.add("resources", table.readiness)
        readiness.add("group", consumer.readiness)
        beacon = Beacon(
            producer,
            topic_prefix=prefix,
            service="multiplexer",
            instance=settings.instance,
            address=f"{settings.host}:{settings.management_port}",
            resources=table,
        )
        await runtime.run(
            {"route": partial(route, multiplexer, consumer, table)},
            attendants={
                "management": partial(
                    management.serve,
                    readiness,
                    host=settings.host,
                    port=settings.management_port,
                ),
                "resources": table.follow,
                "instances": beacon.run,
                "producer": producer.watch,
                "consumer": consumer.watch,
                "commit": multiplexer.commit_forever,
                "release": multiplexer.release_forever,
                "retry": multiplexer.retry_forever,
            },
            drain_s=settings.drain_s,
            stop=stop,
        )


async def route(
    multiplexer: Multiplexer,
    consumer: GroupConsumer,
    table: CompactedTable[Resource],
    stop: asyncio.Event,
) -> None:
    """Consumes once the subscriptions are known, until the stop; then finishes what has begun."""
    if not await runtime.unless_stopped(table.caught_up(), stop):
        return
    consumer.start()
    await stop.wait()
    await multiplexer.drain()
    await consumer.close()


async def commit_note(settings: MultiplexerSettings) -> CommitNote:
    """What offsets are committed with; raises PermanentError when topics do not fit together."""
    prefix = settings.kafka.topic_prefix
    placed = [prefix + name for name in (*topics.SUBSCRIBED, topics.LANES)]
    counts = await admin.partition_counts(settings.kafka, placed)
    if len(set(counts.values())) != 1:
        raise PermanentError(f"these topics need the same number of partitions: {counts}")
    published = prefix + topics.PUBLISHED
    found = await admin.topic_ids(settings.kafka, [published])
    return CommitNote(topic_id=found[published], subscribed_partitions=counts[placed[0]])
