"""Operations on the login node of a cluster: app directories and Slurm's jobs, for one JSON request.

`site.main` runs there as a program, with the request on stdin; where Slurm's commands are on this machine,
`site` is imported. Python 3.6 and its standard library are enough. SIGKILL may come at any line, and several
clients may work for one app id at once, so each decision is one call of link(2) or rename(2), which also
holds on NFS:

`apps/<app id>`  appears whole, by a rename, with `id`, `attempt.json` and its first `owner`
`owner.<nonce>`  the successor of the owner with that nonce: a link, so each owner has at most one successor
`started`        the first decision: start of a job, cancellation, withdrawal, or removal of the whole app;
                 for a removal it is a link to the file of the owner that removes
`job`            the job of the app; another job with that name is superfluous and is cancelled
"""
