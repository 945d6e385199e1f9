"""Floor of publishing: a bare handler that stores the body on Kafka and waits for the ack.

Starlette under uvicorn with httptools and uvloop; no token, no rule, no table, no metric.
"""

import argparse
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.common.kafka import config
from libs.common.kafka.producer import AckProducer
from libs.common.settings import KafkaSettings


def build(kafka: KafkaSettings, topic: str) -> Starlette:
    """The handler; keys are spread evenly over the partitions."""
    numbers = itertools.count()
    producers: list[AckProducer] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AckProducer(config.producer(kafka, client_id="bench-floor-publish")) as producer:
            producers.append(producer)
            yield

    async def publish(request: Request) -> Response:
        body = await request.body()
        await producers[0].send(topic, key=b"%d" % next(numbers), value=body)
        return Response(status_code=201)

    return Starlette(routes=[Route("/publish", publish, methods=["POST"])], lifespan=lifespan)


def main() -> None:
    """Reads the arguments and serves until SIGTERM."""
    parser = argparse.ArgumentParser(prog="publish", description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kafka", required=True)
    parser.add_argument("--topic", required=True)
    arguments = parser.parse_args()
    app = build(KafkaSettings(bootstrap_servers=arguments.kafka), arguments.topic)
    uvicorn.run(
        app,
        host=arguments.host,
        port=arguments.port,
        http="httptools",
        loop="uvloop",
        ws="none",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=65,
    )


if __name__ == "__main__":
    main()
