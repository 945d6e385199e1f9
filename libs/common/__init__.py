"""What more than one service needs: records, errors, settings, the runtime, Kafka, tokens."""
