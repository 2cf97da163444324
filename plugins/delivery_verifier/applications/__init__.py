"""The applications under test: each consumes the records of an arm's topic, and applies them.

A record takes effect here. Later, `spark_jobs` compares the effects with the log, and `verdict` gives the verdict.

Owns: the members of applications, which are child processes, and their control blocks, effects and journals. A member
    has librdkafka, or the Java client in a JVM that is its child (`java`). Also the handle, through which the fault
    plan observes and steers the members. An incarnation of a member is the time from one start of its process to the
    end of this process. The discipline of an application says when it commits the offset of a record: before or after
    it applies the record. A marker is a record that the verifier writes after the load.
May use: load.client_errors, load.java.settings, run_directory, host, model.
Weak spot: except for the user application (`own`), the program under test is a program of this project. The
    verifier does not observe the leaders of output topics. The settings of output topics are fixed and safe.
"""
