"""Libraries shared by the services and the command line."""
