"""The archive job: writes the stream to Parquet files, each message once; merges and reads them."""
