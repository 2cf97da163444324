"""A catalogue run: many entries one after another, each with its verdict, and all of them on one page."""
