"""The proxy before every broker: it drops, holds or delays requests and responses, or closes their connections."""
