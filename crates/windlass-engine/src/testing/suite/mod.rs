//! Test suites that every implementation of a port must pass, including fault cases.
//!
//! A suite panics with the case's name at the first difference. A suite needs a tokio runtime.

mod blob;
mod budget;
mod bus;
mod due;
mod inbox;
mod journal;
mod lease;
mod list;
mod record;
mod sample;
mod subject;
mod usage;

use std::future::Future;

use futures_util::future::BoxFuture;

pub use self::blob::blob_suite;
pub use self::bus::{bus_suite, fragment, next};
pub use self::record::{RecordsSubject, records_suite};
pub use self::sample::{batch, claimed, draws, note, view};
pub use self::subject::JournalSubject;
use crate::port::journal::Journal;

type Case = fn(JournalSubject) -> BoxFuture<'static, ()>;

/// A requirement of a case that not every store meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// The claims of a process are released when it ends. See [`Journal::lease_ms`].
    NoticedEnds,
    /// Claims have a lease.
    Lease,
}

impl Needs {
    fn are_met_by(self, journal: &dyn Journal) -> bool {
        match self {
            Self::Nothing => true,
            Self::NoticedEnds => journal.lease_ms().is_none(),
            Self::Lease => journal.lease_ms().is_some(),
        }
    }
}

macro_rules! cases {
    ($($needs:ident: [$($module:ident :: $case:ident),+ $(,)?],)+) => {
        [$($((stringify!($case), Needs::$needs, (|subject| Box::pin($module::$case(subject))) as Case)),+),+]
    };
}

/// Returns the cases of the journal port, each with its requirement.
fn journal_cases() -> impl IntoIterator<Item = (&'static str, Needs, Case)> {
    cases![
        Nothing: [
        journal::a_new_thread_starts_empty,
        journal::events_come_back_in_order,
        journal::reading_pages,
        journal::reading_back_pages,
        journal::a_wrong_position_is_a_conflict,
        journal::a_stale_epoch_is_fenced,
        journal::an_append_after_release_is_fenced,
        journal::a_refused_append_leaves_nothing,
        journal::an_empty_batch_moves_only_the_batch_id,
        journal::a_held_thread_is_not_taken,
        journal::a_released_thread_is_taken,
        journal::a_thread_is_made_by_its_first_append,
        journal::the_newest_snapshot_stays,
        journal::a_late_snapshot_of_a_deleted_thread_is_ignored,
        journal::an_active_thread_is_not_deleted,
        journal::a_deleted_thread_is_gone_and_its_owner_fenced,
        journal::the_check_passes,
        inbox::inputs_come_in_order,
        inbox::the_same_id_is_taken_once,
        inbox::consumption_gives_the_outcome,
        inbox::a_row_is_consumed_once,
        inbox::an_outcome_is_kept_for_a_day,
        inbox::an_inbox_has_room_for_so_many,
        inbox::only_a_message_makes_a_thread,
        budget::what_is_reserved_and_used_is_counted,
        budget::a_refused_reserve_writes_nothing,
        budget::a_refused_first_append_makes_no_thread,
        budget::many_at_once_never_take_more_than_the_cap,
        budget::the_same_append_reserves_once,
        budget::a_settled_key_stays_settled,
        budget::a_key_reserves_one_set_of_amounts,
        budget::an_unknown_key_books_what_was_used,
        budget::settles_come_before_reserves,
        budget::amounts_saturate,
        budget::names_are_bounded,
        budget::budgets_are_found_by_how_they_begin,
        budget::a_deleted_thread_frees_what_it_reserved,
        budget::old_days_are_cleared,
        budget::own_budgets_go_with_their_run_and_thread,
        list::threads_are_paged_newest_first,
        list::threads_are_filtered,
        list::titles_are_found_by_any_part,
        list::threads_are_found_by_owner_and_by_what_they_do,
        list::a_thread_moves_in_lists_as_it_changes,
        list::runs_are_found,
        list::runs_are_filtered_and_paged,
        list::queued_runs_are_found_by_id_alone,
        usage::usage_is_summed_up,
        usage::usage_is_filtered_and_bounded,
        usage::usage_is_the_sum_of_the_runs,
        due::due_threads_are_claimed,
        due::a_thread_that_is_held_is_not_due,
        due::a_due_thread_is_given_to_one_node,
        due::a_claim_of_a_due_thread_raises_its_epoch,
        ],
        NoticedEnds: [
        journal::a_dead_nodes_thread_is_taken_at_once,
        due::what_a_dead_node_held_is_due,
        ],
        Lease: [
        lease::a_claim_ends_unless_it_is_renewed,
        lease::a_lapsed_claim_is_due,
        lease::a_claim_that_was_lost_is_not_renewed,
        lease::a_first_append_holds_its_thread_for_a_lease,
        ],
    ]
}

/// Runs every case of the journal port whose requirement the store meets, each on a fresh subject.
pub async fn journal_suite<F: Future<Output = JournalSubject>>(make: impl Fn() -> F) {
    for (name, needs, case) in journal_cases() {
        let subject = make().await;
        if needs.are_met_by(&*subject.first) {
            eprintln!("journal suite: {name}");
            case(subject).await;
        }
    }
}
