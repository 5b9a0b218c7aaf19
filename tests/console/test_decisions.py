"""The part `decisions` in a real browser, of live nodes with traffic."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from penstock.model.sparkplug_plain import write_plain
from tests.support.console import Looking, looking
from tests.support.examples import FOLDER
from tests.support.paho import Paho

HOSTILE = "<img src=x onerror=alert(1)>"
