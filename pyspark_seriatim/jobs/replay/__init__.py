"""An archive published again in its order, each message once."""
