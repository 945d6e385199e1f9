"""The control plane: exposures, subscriptions and Rover files, kept in the table `resources`."""
