//! Metrics of the process itself, read from /proc when they are asked for.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, IntGauge};

/// `process_*` as every Prometheus client library names them.
pub struct Process {
    cpu: Counter,
    open_fds: IntGauge,
    max_fds: IntGauge,
    resident: IntGauge,
    virtual_memory: IntGauge,
    start: IntGauge,
    clock_ticks: f64,
}

impl Process {
    /// Makes them; without /proc they stay 0.
    pub fn new() -> prometheus::Result<Process> {
        let process = Process {
            cpu: Counter::new(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            )?,
            open_fds: IntGauge::new("process_open_fds", "Number of open file descriptors.")?,
            max_fds: IntGauge::new("process_max_fds", "Maximum number of open file descriptors.")?,
            resident: IntGauge::new("process_resident_memory_bytes", "Resident memory size in bytes.")?,
            virtual_memory: IntGauge::new("process_virtual_memory_bytes", "Virtual memory size in bytes.")?,
            start: IntGauge::new(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )?,
            clock_ticks: rustix::param::clock_ticks_per_second() as f64,
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        process.start.set(now.map_or(0, |d| d.as_secs() as i64));
        Ok(process)
    }

    fn read(&self) -> Option<()> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // the second field is a name in brackets that may hold spaces
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        let cpu = (number(11) + number(12)) as f64 / self.clock_ticks;
        self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
        self.virtual_memory.set(number(20) as i64);
        self.resident
            .set((number(21) * rustix::param::page_size() as u64) as i64);
        self.open_fds
            .set(std::fs::read_dir("/proc/self/fd").ok()?.count() as i64);
        let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
        let max = limits.lines().find_map(|l| l.strip_prefix("Max open files"))?;
        self.max_fds
            .set(max.split_whitespace().next()?.parse().unwrap_or(i64::MAX));
        Some(())
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [
            &self.open_fds,
            &self.max_fds,
            &self.resident,
            &self.virtual_memory,
            &self.start,
        ];
        let mut out = self.cpu.desc();
        out.extend(gauges.into_iter().flat_map(Collector::desc));
        out
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read();
        let gauges = [
            &self.open_fds,
            &self.max_fds,
            &self.resident,
            &self.virtual_memory,
            &self.start,
        ];
        let mut out = self.cpu.collect();
        out.extend(gauges.into_iter().flat_map(Collector::collect));
        out
    }
}
