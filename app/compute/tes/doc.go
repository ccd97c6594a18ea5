// Package tes lets tasks of the GA4GH Task Execution Service 1.1 (TES) run as compute jobs: it makes an order of a
// task, and a task of a job. It has no HTTP.
//
// What a task's fields become:
//
//	image                      the service, by the list of the server; the image itself is not run: services are not
//	                           containers
//	executors                  one run.sh, which runs them one after the other and ends with the first that fails,
//	                           unless that ignores errors
//	inputs                     files of the job: content, http(s) URLs that are fetched while the task is made, files
//	                           below the roots that the server allows
//	outputs                    files of the job's results, which their log names by URL; with a url below the
//	                           directories that the server allows they are copied there (file://)
//	                           when the job has completed, and the task is RUNNING until they are
//	resources                  limits of the job: cpu_cores, ram_gb and disk_gb (powers of 1024), and the backend
//	                           parameters of Parameters
//	tags                       labels, as far as their grammar allows; filters of lists see all of them
//
// # Paths
//
// A task speaks of absolute paths such as /data/in.txt. A job has no file system of its own to make them in: it works
// in one directory, /job in a sandbox, and another one without. So /data/in.txt lies at tes/data/in.txt below that
// directory, and every word of a command and every value of env that names a path of the task is rewritten. Paths of
// the task are those of its inputs, outputs, volumes, workdirs, stdin, stdout and stderr, and the directories in which
// they lie, except those of the system (/, /bin, /dev, /etc, /lib, /opt, /proc, /run, /sbin, /sys, /usr, /var). A path
// is found wherever it stands in a word, also in the text of a shell's -c, if it begins where a word may begin (not
// behind a letter, a digit or one of _ . ~ / - and the like) and ends where a name may end. What stands in files is not
// rewritten: a script that is an input should use relative paths; an executor without a workdir begins in tes, so that
// data/in.txt is the same file.
//
// Beside tes there are tes.in.N, the inputs as they came (tes has links to them, or copies where outputs cover them),
// and tes.log with what the executors did.
package tes
