"""The broker's process: clients, data plane, replay, storage, feeds, staging and monitoring."""
