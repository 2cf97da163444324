"""The means by which a composed cluster is broken: one module per means (see `cluster.means`)."""
