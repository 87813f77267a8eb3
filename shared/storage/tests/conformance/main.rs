//! One suite, every backend: what `Store` promises, checked over each implementation and wrapper.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

mod cached;
mod durability;
mod harness;
mod suite;
mod tls;

/// Runs every test of the suite over each backend.
macro_rules! over_every_backend {
    ($suite:ident, $($test:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() {
                let backend = crate::harness::Backend::embedded();
                crate::$suite::$test(backend.store.clone()).await;
            })*
        }
        mod etcd {
            $(#[tokio::test]
            async fn $test() {
                let backend = crate::harness::Backend::etcd().await;
                crate::$suite::$test(backend.store.clone()).await;
            })*
        }
        mod prefixed {
            $(#[tokio::test]
            async fn $test() {
                let backend = crate::harness::Backend::prefixed();
                crate::$suite::$test(backend.store.clone()).await;
            })*
        }
    };
}

mod store {
    over_every_backend!(
        suite,
        a_key_is_created_once,
        an_update_needs_the_revision_it_read,
        a_deleted_key_can_be_created_again_under_a_larger_revision,
        deleting_what_is_not_there_is_no_conflict_with_absence,
        a_range_holds_its_prefix_in_order_and_nothing_else,
        pages_continue_from_a_key_and_count_what_remains,
        a_range_shows_the_state_at_a_past_revision,
        the_future_cannot_be_read,
        a_watch_replays_what_happened_and_goes_on_live,
        a_watch_sees_only_its_prefix,
        a_watch_that_is_not_read_for_long_misses_nothing,
        what_was_compacted_is_an_error_and_the_rest_stays,
        progress_is_told_when_asked_for,
        a_key_with_a_ttl_expires_as_an_ordinary_delete,
        writing_again_replaces_the_ttl,
        a_large_value_is_kept_and_a_huge_one_refused,
        concurrent_writers_lose_no_update,
        every_write_has_a_revision_of_its_own,
    );
}

mod cache {
    over_every_backend!(
        cached,
        consistent_reads_see_what_others_wrote,
        reads_that_come_together_are_all_fresh,
        expired_keys_are_deleted_events_of_their_own,
        past_states_are_the_same_in_memory_and_in_the_store,
    );
}
