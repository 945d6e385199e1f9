"""Builds delivery and runs it."""

import asyncio
from functools import partial

from libs.common import management, runtime, topics
from libs.common.instances import Beacon
from libs.common.kafka import config
from libs.common.kafka.consumer import GroupConsumer
from libs.common.kafka.producer import AckProducer
from libs.common.kafka.table import CompactedTable
from libs.common.kafka.transactions import TransactionalWriter
from libs.common.resources import Catalog, Resource, decode_resource
from services.delivery.adapters.http import HttpCallbacks
from services.delivery.adapters.kafka import (
    KafkaProgressLog,
    KafkaStatusLog,
    KafkaSubscriptions,
)
from services.delivery.service.ownership import Delivery
from services.delivery.settings import DeliverySettings

STATUS_LINGER_MS = 50
REPORT_INTERVAL_S = 0.02
"""Acknowledged statuses only move progress, which is written every 200 ms."""


async def run(settings: DeliverySettings) -> None:
    """Runs until SIGTERM; raises what ended it otherwise."""
    catalog = Catalog()
    table = CompactedTable[Resource](
        settings.kafka,
        topics.RESOURCES,
        decode=decode_resource,
        client_id=settings.instance,
        on_change=catalog.apply,
    )
    writer = TransactionalWriter(settings.kafka, transactional_id=settings.instance, only_user=True)
    try:
        await writer.start()
        await run_with(settings, writer, catalog, table)
        await writer.close()
    finally:
        writer.give_up()


async def run_with(
    settings: DeliverySettings,
    writer: TransactionalWriter,
    catalog: Catalog,
    table: CompactedTable[Resource],
) -> None:
    """Builds the rest around the writer of checkpoints, and runs it until SIGTERM."""
    properties = {
        **config.producer(settings.kafka, client_id=settings.instance, linger_ms=STATUS_LINGER_MS),
        "message.timeout.ms": 0,
    }
    async with (
        AckProducer(properties, report_interval_s=REPORT_INTERVAL_S) as producer,
        HttpCallbacks(settings) as callbacks,
    ):
        progress_log = KafkaProgressLog(
            settings.kafka,
            writer,
            instance=settings.instance,
            group_metadata=lambda: consumer.group_metadata,
        )
        delivery = Delivery(
            settings,
            callbacks=callbacks,
            status_log=KafkaStatusLog(producer, topic_prefix=settings.kafka.topic_prefix),
            subscriptions=KafkaSubscriptions(catalog, table),
            progress_log=progress_log,
        )
        consumer = GroupConsumer(
            settings.kafka,
            topics.SUBSCRIBED,
            group=settings.group,
            instance=settings.instance,
            listener=delivery,
            on_batch=delivery.on_batch,
        )
        delivery.read_from(consumer)
        await supervise(settings, delivery, consumer, table=table, producer=producer)


async def supervise(
    settings: DeliverySettings,
    delivery: Delivery,
    consumer: GroupConsumer,
    *,
    table: CompactedTable[Resource],
    producer: AckProducer,
) -> None:
    """Runs the root tasks until SIGTERM."""
    stop = asyncio.Event()
    readiness = management.Readiness(stop)
    readiness.add("resources", table.readiness)
    readiness.add("group", consumer.readiness)
    beacon = Beacon(
        producer,
        topic_prefix=settings.kafka.topic_prefix,
        service="delivery",
        instance=settings.instance,
        address=f"{settings.host}:{settings.management_port}",
        resources=table,
    )
    await runtime.run(
        {"deliver": partial(deliver, delivery, consumer, table)},
        attendants={
            "management": partial(
                management.serve, readiness, host=settings.host, port=settings.management_port
            ),
            "resources": table.follow,
            "instances": beacon.run,
            "producer": producer.watch,
            "consumer": consumer.watch,
            "courier": delivery.courier.run,
            "checkpoint": delivery.checkpoint_forever,
            "recover": delivery.recover_forever,
        },
        drain_s=settings.drain_s,
        stop=stop,
    )


async def deliver(
    delivery: Delivery,
    consumer: GroupConsumer,
    table: CompactedTable[Resource],
    stop: asyncio.Event,
) -> None:
    """Consumes once the subscriptions are known, until the stop; then settles what is in flight."""
    if not await runtime.unless_stopped(table.caught_up(), stop):
        return
    consumer.start()
    await stop.wait()
    await delivery.drain()
    await consumer.close()
