"""The stream as Parquet files, each message once: written, merged, listed for others, and read."""
