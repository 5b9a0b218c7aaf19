"""XACML 3.0: policies read as they are, and decided by (docs/xacml.md). This is the way in.

pdp = Pdp([read_policy(xml)])
response = pdp.decide(read_request(xml), now=time.time_ns())
"""

from penstock.policy.xacml.evaluation.pdp import Pdp as Pdp
from penstock.policy.xacml.forms.json_profile import read_request_json as read_request_json
from penstock.policy.xacml.forms.json_profile import show_response_json as show_response_json
from penstock.policy.xacml.forms.policy_xml import read_policy as read_policy
from penstock.policy.xacml.forms.printer import show_policy as show_policy
from penstock.policy.xacml.forms.request_xml import read_request as read_request
from penstock.policy.xacml.forms.short import read_short as read_short
from penstock.policy.xacml.request import RequestAttribute as RequestAttribute
from penstock.policy.xacml.request import RequestCategory as RequestCategory
from penstock.policy.xacml.request import XacmlRequest as XacmlRequest
from penstock.policy.xacml.response import XacmlResponse as XacmlResponse
from penstock.policy.xacml.response import XacmlResult as XacmlResult
from penstock.policy.xacml.response import show_response as show_response
from penstock.policy.xacml.status import XacmlError as XacmlError
