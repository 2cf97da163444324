"""How clients of a cluster prove who they are, and what they trust: names, stores, files, and what is refused."""
