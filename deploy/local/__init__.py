"""The embedded platform: real Kafka, Redis, a development issuer and all services on one machine.

`setup` prepares a checkout, `supervisor` runs a platform, `launch` starts and stops one from other
programs, `demo` shows the whole way of an event. Ports, files and fields: `docs/`, "Embedded
platform".
"""
