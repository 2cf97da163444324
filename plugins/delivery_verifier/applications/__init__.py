"""The applications under test: each consumes the records of an arm's topic, and applies them.

Here a record takes effect. Then `spark_jobs` compares the effects with the log, and `judgement` ends the way.

Owns: the members of applications, which are child processes, and their control blocks, effects and journals. Also the
    handle, through which the fault plan observes and steers the members. A life of a member is the time from one start
    of its process to the end of this process. The discipline of an application says when it commits the offset of a
    record: before or after it applies the record. A marker is a record that the verifier writes after the load.
May use: store, host, model.
Weak spot: apart from own applications (`own`), the program under test is one of this project. Nobody observes the
    leaders of output topics; their settings are fixed, and are safe.
"""
