"""The site works without a network."""

import pytest

from conf.docs.site_links import foreign_loads


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://unpkg.com/mermaid@11/dist/mermaid.min.js"></script>',
        '<link href="//fonts.example/a.css" rel="stylesheet">',
        "<link rel=preconnect href=https://fonts.gstatic.com>",
        '<img alt="a" src="http://example.org/a.png">',
        '<pre class="mermaid"><code>flowchart</code></pre>',
    ],
)
def test_resources_of_another_host_are_found(html):
    assert len(foreign_loads(f"<p>{html}</p>")) == 1


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://kroxylicious.io">a proxy</a>',
        '<script src="../assets/javascripts/bundle.js"></script>',
        '<link rel="canonical" href="https://example.org/page.html">',
        '<img src="experiment.svg">',
    ],
)
def test_links_and_files_of_the_site_do_not_count(html):
    assert foreign_loads(html) == []
