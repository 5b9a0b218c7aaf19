"""The identifiers of XACML 3.0."""

CORE = "urn:oasis:names:tc:xacml:3.0:core:schema:wd-17"
"""The namespace of its elements."""

XPATH_1 = "http://www.w3.org/TR/1999/REC-xpath-19991116"

_XS = "http://www.w3.org/2001/XMLSchema#"

STRING = _XS + "string"
BOOLEAN = _XS + "boolean"
INTEGER = _XS + "integer"
DOUBLE = _XS + "double"
TIME = _XS + "time"
DATE = _XS + "date"
DATE_TIME = _XS + "dateTime"
DAY_TIME_DURATION = _XS + "dayTimeDuration"
YEAR_MONTH_DURATION = _XS + "yearMonthDuration"
ANY_URI = _XS + "anyURI"
HEX_BINARY = _XS + "hexBinary"
BASE64_BINARY = _XS + "base64Binary"
RFC822_NAME = "urn:oasis:names:tc:xacml:1.0:data-type:rfc822Name"
X500_NAME = "urn:oasis:names:tc:xacml:1.0:data-type:x500Name"
IP_ADDRESS = "urn:oasis:names:tc:xacml:2.0:data-type:ipAddress"
DNS_NAME = "urn:oasis:names:tc:xacml:2.0:data-type:dnsName"
XPATH_EXPRESSION = "urn:oasis:names:tc:xacml:3.0:data-type:xpathExpression"

_WD = "http://www.w3.org/TR/2002/WD-xquery-operators-20020816#"
OLD_TYPES = {
    _WD + "dayTimeDuration": DAY_TIME_DURATION,
    _WD + "yearMonthDuration": YEAR_MONTH_DURATION,
    "urn:oasis:names:tc:xacml:2.0:data-type:dayTimeDuration": DAY_TIME_DURATION,
    "urn:oasis:names:tc:xacml:2.0:data-type:yearMonthDuration": YEAR_MONTH_DURATION,
}
"""The names of types in earlier versions."""

FUNCTION_1 = "urn:oasis:names:tc:xacml:1.0:function:"
FUNCTION_2 = "urn:oasis:names:tc:xacml:2.0:function:"
FUNCTION_3 = "urn:oasis:names:tc:xacml:3.0:function:"

CEL = "urn:penstock:xacml:function:cel"
"""Our function: a condition in the project's language (docs/xacml.md)."""

SUBJECT = "urn:oasis:names:tc:xacml:1.0:subject-category:access-subject"
RESOURCE = "urn:oasis:names:tc:xacml:3.0:attribute-category:resource"
ACTION = "urn:oasis:names:tc:xacml:3.0:attribute-category:action"
ENVIRONMENT = "urn:oasis:names:tc:xacml:3.0:attribute-category:environment"

SUBJECT_ID = "urn:oasis:names:tc:xacml:1.0:subject:subject-id"
RESOURCE_ID = "urn:oasis:names:tc:xacml:1.0:resource:resource-id"
ACTION_ID = "urn:oasis:names:tc:xacml:1.0:action:action-id"

SHORT_CATEGORIES = {"subject": SUBJECT, "resource": RESOURCE, "action": ACTION, "environment": ENVIRONMENT}
"""Their names in the short form, and in domain files."""
CATEGORIES = {
    "AccessSubject": SUBJECT,
    "Resource": RESOURCE,
    "Action": ACTION,
    "Environment": ENVIRONMENT,
    "RecipientSubject": "urn:oasis:names:tc:xacml:1.0:subject-category:recipient-subject",
    "IntermediarySubject": "urn:oasis:names:tc:xacml:1.0:subject-category:intermediary-subject",
    "Codebase": "urn:oasis:names:tc:xacml:1.0:subject-category:codebase",
    "RequestingMachine": "urn:oasis:names:tc:xacml:1.0:subject-category:requesting-machine",
}
"""Their names in the JSON profile (§4.2.1)."""

CURRENT_TIME = "urn:oasis:names:tc:xacml:1.0:environment:current-time"
CURRENT_DATE = "urn:oasis:names:tc:xacml:1.0:environment:current-date"
CURRENT_DATE_TIME = "urn:oasis:names:tc:xacml:1.0:environment:current-dateTime"

CONTENT_SELECTOR = "urn:oasis:names:tc:xacml:3.0:content-selector"
MULTIPLE_CONTENT_SELECTORS = (
    "urn:oasis:names:tc:xacml:3.0:profile:multiple:content-selector",
    "urn:oasis:names:tc:xacml:3.0:multiple:content-selector",  # as the public conformance cases write it
)
SCOPE = "urn:oasis:names:tc:xacml:2.0:resource:scope"

OK = "urn:oasis:names:tc:xacml:1.0:status:ok"
MISSING_ATTRIBUTE = "urn:oasis:names:tc:xacml:1.0:status:missing-attribute"
SYNTAX_ERROR = "urn:oasis:names:tc:xacml:1.0:status:syntax-error"
PROCESSING_ERROR = "urn:oasis:names:tc:xacml:1.0:status:processing-error"
