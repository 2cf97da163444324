"""The proxy between the producers under test and the brokers. Its rules drop, hold or delay requests and responses, or
close connections."""
