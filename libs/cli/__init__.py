"""The command `meridian`: run a platform, apply resources, publish, receive."""
