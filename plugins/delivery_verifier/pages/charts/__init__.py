"""Charts: the plots of the report page. The only user of Bokeh beside report/page, which embeds BokehJS."""
