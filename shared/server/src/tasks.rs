//! The tasks that shutdown waits for, by name, so that it can say who holds it open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A group of tasks and requests.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Group>);

#[derive(Default)]
struct Group {
    running: Mutex<BTreeMap<&'static str, usize>>,
    ended: Notify,
}

/// Something that shutdown waits for; over when dropped.
pub struct Running {
    name: &'static str,
    group: Arc<Group>,
}

impl Tasks {
    /// Enters something into the group.
    pub fn enter(&self, name: &'static str) -> Running {
        *self.0.running.lock().entry(name).or_insert(0) += 1;
        Running {
            name,
            group: Arc::clone(&self.0),
        }
    }

    /// Runs `task` in the group.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let running = self.enter(name);
        tokio::spawn(async move {
            task.await;
            drop(running);
        });
    }

    /// Who is running, and how many of each.
    pub fn running(&self) -> Vec<(&'static str, usize)> {
        self.0.running.lock().iter().map(|(n, c)| (*n, *c)).collect()
    }

    /// Waits until nobody is, at most `limit`; then says who still is.
    pub async fn wait(&self, limit: Duration) -> Result<(), Vec<(&'static str, usize)>> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let ended = self.0.ended.notified();
            if self.0.running.lock().is_empty() {
                return Ok(());
            }
            if tokio::time::timeout_at(deadline, ended).await.is_err() {
                let running = self.running();
                return if running.is_empty() { Ok(()) } else { Err(running) };
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.group.running.lock();
        if let Some(count) = running.get_mut(self.name) {
            *count -= 1;
            if *count == 0 {
                running.remove(self.name);
                self.group.ended.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_names_who_holds_it_open() {
        let tasks = Tasks::default();
        let request = tasks.enter("request");
        tasks.spawn("hook", async { tokio::time::sleep(Duration::from_secs(1)).await });
        assert_eq!(tasks.wait(Duration::from_secs(5)).await, Err(vec![("request", 1)]));
        drop(request);
        assert_eq!(tasks.wait(Duration::from_secs(5)).await, Ok(()));
    }
}
