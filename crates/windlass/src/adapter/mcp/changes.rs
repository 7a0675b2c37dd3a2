//! A newer server's word that its list of tools has changed: a stream of its own, asked for once.
//!
//! Older servers say it unasked, to the client's handler; a server that says nothing is read again now and then.

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::SubscriptionFilter;
use rmcp::service::Subscription;

use super::connect::Connection;

/// A newer server's word that its lists have changed.
pub(super) enum Changes {
    /// It is being asked to tell.
    Asking(BoxFuture<'static, Option<Subscription>>),
    /// It tells.
    Told(Box<Subscription>),
    /// It does not: the list is read again when its time is up.
    Untold,
}

impl Changes {
    pub fn of(connection: &Connection) -> Self {
        let info = &connection.info;
        let tells = info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        if info.protocol_version.has_initialize() || !tells {
            return Self::Untold;
        }
        let (peer, filter) = (connection.peer.clone(), SubscriptionFilter::builder().tools_list_changed());
        Self::Asking(async move { peer.listen(filter.build()).await.ok() }.boxed())
    }

    /// Completes whenever the list may be another; never where the server does not tell. May be dropped and called again.
    pub async fn next(&mut self) {
        match self {
            Self::Asking(asking) => {
                let told = asking.await;
                // A change may have come before the server began to tell.
                *self = told.map_or(Self::Untold, |told| Self::Told(Box::new(told)));
            }
            Self::Told(subscription) => {
                if !matches!(subscription.next().await, Ok(Some(_))) {
                    *self = Self::Untold;
                }
            }
            Self::Untold => std::future::pending().await,
        }
    }
}
