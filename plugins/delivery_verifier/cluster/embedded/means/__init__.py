"""The means by which an embedded cluster is broken: one module per means (see `cluster.means`)."""
