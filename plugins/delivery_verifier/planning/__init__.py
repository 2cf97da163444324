"""Planning: turns the fields of a run into a checked scenario. A user fills in the fields in a form or on a command
line.

Owns: the fields of a run, the translation of settings of the user's own, the checks of the host before a run, and the
    texts that explain what a run would do and what settings promise.
May use: contract, catalogue, load.layout, load.java.settings, cluster, host, model.
Weak spot: settings that were written for the Java client reach it as they are, and are judged by their translation for
    librdkafka. `own_settings.java_properties` compares the two, but knows only what the translation knows.
"""
