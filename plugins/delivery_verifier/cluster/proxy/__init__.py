"""The proxy before every broker: it drops, holds, delays and cuts requests and answers."""
