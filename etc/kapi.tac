# For `twistd -n --python etc/kapi.tac`: the flags come from KAPI_FLAGS, or from the file that KAPI_CONFIG names.
import os
import shlex

from twisted.application.service import Application

from kapi.tap import Options, makeService
from kapi.twistd import twistd_options

options = Options()
options.parent = twistd_options()
options.parseOptions(
    [
        *([f"--config-file={os.environ['KAPI_CONFIG']}"] if "KAPI_CONFIG" in os.environ else []),
        *shlex.split(os.environ.get("KAPI_FLAGS", "")),
    ]
)
application = Application("kapi")
makeService(options).setServiceParent(application)
