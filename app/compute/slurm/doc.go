// Package slurm runs payloads on a cluster of Slurm through its commands: sbatch, squeue, sacct where there is
// accounting, scontrol, scancel and sinfo.
//
// A payload is a directory below a folder that the server shares with the cluster's nodes:
//
//	<dir>/<job>.<attempt>/
//	    ticket.json   written before sbatch: whose it is, and what was asked for
//	    batch.sh      what Slurm runs: ours, made of numbers and paths of ours only
//	    env           the payload's environment, sourced by batch.sh
//	    sent          written before sbatch, too: from then on Slurm is asked before it is called again
//	    slurm.json    Slurm's id, written after sbatch
//	    claim/        made by the run, or by a server that needs no run any more: the process that makes it first has
//	    the payload
//	    killed        a request to end it
//	    exit.json     written by batch.sh when run.sh has ended
//	    stdout stderr slurm.out
//	    work/         the payload: its files, run.sh among them
//
// Beside them, .sent holds a file for each ticket that Slurm may have, with the inode numbers of its directory and of
// work. A directory that a payload put under their name is neither read nor removed, and a payload whose directory is
// gone has ended as lost; nothing of it is handed over again.
//
// The directory is the truth of what was asked for, exit.json of how it ended, and Slurm of everything between. What
// makes a ticket run once: its directory appears by one rename, Slurm has it by a name that is made of the ticket (so
// that a lost answer of sbatch is settled by asking for the name), Slurm is configured not to requeue it, and a run
// begins by making the folder claim, which only one can (mkdir is atomic on network file systems, too). A second run of
// a ticket, however it came about, ends before run.sh.
//
// One squeue serves all that is asked at a time. Slurm without accounting (no slurmdbd) is enough: then exit.json and
// squeue, which has an ended job for MinJobAge, have all of it.
package slurm
