"""The replay job: publishes an archive again in its order, each message once."""
