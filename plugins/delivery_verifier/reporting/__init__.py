"""The pages: everything that people read. They render a verdict as it is stored, and decide nothing.

A new section of the report is a module in `reporting/report` and a template in `reporting/templates`.

Owns: the report and its charts, the matrix, comparisons, prices, the page of all runs, the history of sentinels and
    their gauges, the verdict in a terminal and as JUnit XML.
May use: contract.guarantees, contract.settings, catalogue, run_directory, host, model.
Weak spot: a plot shows at most 8 arms, and at most 1,200 points per line. The figures beside the plot are exact.
"""
