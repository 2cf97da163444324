"""The price: what each guarantee costs and gives."""
