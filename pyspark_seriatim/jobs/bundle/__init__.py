"""The zip that brings Seriatim to Spark's executors."""
