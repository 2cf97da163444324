"""The cluster check: what can be found out about a cluster within seconds, without leaving a trace there."""
