"""The applications under test: each consumes the records of an arm's topic, and applies them.

Here a record takes effect. Then `spark_jobs` compares the effects with the log, and `judgement` ends the way.

Owns: the members of applications, which are child processes, and their control blocks, effects and journals. Also the
    handle, through which the fault plan observes and steers the members.
May use: store, host, model.
    Members of own applications run a command of the user's (`own`).
Weak spot: effects land in slots, in a table of SQLite, or in lines and files of the user's. Effects in another topic
    are not covered yet.
"""
