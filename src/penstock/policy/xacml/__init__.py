"""XACML 3.0: policies read as they are, and decided by (docs/xacml.md). This is the way in.

pdp = Pdp([read_policy(xml)])
response = pdp.decide(read_request(xml), now=time.time_ns())
"""

from penstock.policy.xacml.pdp import Pdp as Pdp
from penstock.policy.xacml.reader import read_policy as read_policy
from penstock.policy.xacml.request import Attribute as Attribute
from penstock.policy.xacml.request import Category as Category
from penstock.policy.xacml.request import Request as Request
from penstock.policy.xacml.request_xml import read_request as read_request
from penstock.policy.xacml.request_xml import show_request as show_request
from penstock.policy.xacml.response import Response as Response
from penstock.policy.xacml.response import Result as Result
from penstock.policy.xacml.response import show_response as show_response
from penstock.policy.xacml.status import XacmlError as XacmlError
