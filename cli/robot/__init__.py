"""Commands around a running policy: drive, replay, time it, and check what it runs on."""
