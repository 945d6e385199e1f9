"""The publish service: takes events over HTTP and answers once Kafka has stored them."""
