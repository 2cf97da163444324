"""The applications under test: consumers that apply the records of an arm's topic, each in a process of its own.

Here a record takes effect. `spark_jobs` compares the effects with the log, and `judgement` ends the way.

Owns: the members of applications as child processes, their control blocks, their effects and their journals, and the
    handle through which the fault plan observes and steers them.
May use: store, host, model.
Weak spot: effects are rows that this project writes itself. What an application does in a database or another topic is
    not covered yet.
"""
