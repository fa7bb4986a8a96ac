"""CodeBuild: builds really run, as processes of this machine, with the programs that the local cloud is told of.

No image is pulled and nothing is isolated: a build is what the local cloud's user runs, under the credentials of the
project's service role.
"""
