"""How far a run has come, for people who watch it. No verdict rests on this room.

Owns: the phase of a run in words, the state of its load so far, the time that is left by earlier runs of this host, and
    the line on a terminal.
May use: load, run_directory, host, model.
Weak spot: who cannot see the workspace, e.g. a web server on another host, knows only the step.
"""
