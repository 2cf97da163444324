"""The proxy before every broker. Its rules drop, hold or delay requests and responses, or close connections."""
