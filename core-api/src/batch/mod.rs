//! batch/v1: jobs and cron jobs.

mod cron_job;
mod indexes;
mod job;
mod job_spec;
mod job_status;
mod schedule;

use crate::kinds::Kinds;

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("batch", "cronjobs", cron_job::CronJobs);
    kinds.subresource("batch", "cronjobs", "status", cron_job::Status);
    kinds.strategy("batch", "jobs", job::Jobs);
    kinds.subresource("batch", "jobs", "status", job_status::Status);
}
