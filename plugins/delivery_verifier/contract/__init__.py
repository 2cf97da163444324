"""What settings promise under what happened.

Owns: rules with their sources, rulings, disturbances, which setting is stronger, what a plan is expected to disturb.
May use: model.
Weak spot: a permission holds for a whole run and topic; cases elsewhere are a doubt, not a conviction.
"""
