"""Pages: what people read of finished runs, as HTML, on a terminal and as JUnit XML.

Owns every page, its templates and its words. Uses judgement (evaluation), catalogue, store, host and model; decides
nothing. Known weakness: the tables of a run are read into memory as a whole, but for the ledger.
"""
