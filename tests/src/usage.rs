//! What a process has used so far, as Linux tells in `/proc`.

use std::io;
use std::time::Duration;

/// CPU time and memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time of all its threads since it began.
    pub cpu: Duration,
    /// Bytes resident now (`VmRSS`).
    pub resident: u64,
    /// The most bytes that were ever resident (`VmHWM`).
    pub peak: u64,
}

impl Usage {
    /// Of the process `pid`.
    pub fn of(pid: i32) -> io::Result<Usage> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        Usage::parse(&status, &stat, ticks_per_second)
            .ok_or_else(|| io::Error::other(format!("/proc/{pid} is not understood")))
    }

    fn parse(status: &str, stat: &str, ticks_per_second: u64) -> Option<Usage> {
        let bytes = |field: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kilobytes * 1024)
        };
        // The second field, the name in parentheses, may hold blanks; utime and stime are the 14th and 15th of all.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(Usage {
            cpu: Duration::from_millis((user + system) * 1000 / ticks_per_second),
            resident: bytes("VmRSS:")?,
            peak: bytes("VmHWM:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 8 0 100 1 2";
        let usage = Usage::parse("VmHWM:\t   20 kB\nVmRSS:\t   10 kB\n", stat, 100).unwrap();
        assert_eq!(
            usage,
            Usage {
                cpu: Duration::from_secs(2),
                resident: 10 * 1024,
                peak: 20 * 1024
            }
        );
    }

    #[test]
    fn this_process_is_found() {
        let usage = Usage::of(std::process::id().cast_signed()).unwrap();
        assert!(usage.resident > 0 && usage.peak >= usage.resident);
    }
}
