"""Child processes and the memory through which they are observed and steered, for all who start them.

* `control_block`: int64 words in a mapped file, and commands through them.
* `children`: how a child is started, gets signals together with others, and is waited for.
* `descendants`: all processes below one process, also those whose parents have ended.
"""
