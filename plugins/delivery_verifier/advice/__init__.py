"""What follows from a verdict for its reader. It is decided once, after the run was judged, and stored in verdict.json:
the pages only render it.

Owns: what to change, the command that tries a change, the comparison with other arms, what to do about each doubt,
    and why single records show an anomaly.
May use: judgement, contract, catalogue, store, model.
Weak spot: of the cases of one arm and anomaly, only one gets an explanation of its own.
"""
