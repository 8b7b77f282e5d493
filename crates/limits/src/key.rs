//! Keys as bytes, for state that lives outside this process and for logs.
//!
//! Every part is preceded by its length, so no choice of names makes two different keys equal, and callers without a
//! tenant live in a space of their own that no tenant's name can reach.

use crate::Place;

/// Whose calls they are: a tenant's, or those of a server that knows no tenants (`auth = "none"`).
///
/// The two can never meet, whatever a tenant is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TenantIdentity<'a> {
    /// The tenant of this name.
    Named(&'a str),
    /// No tenant.
    Untenanted,
}

impl TenantIdentity<'_> {
    /// The identity as bytes, injective.
    ///
    /// ```
    /// use sluicegate_limits::TenantIdentity;
    ///
    /// assert_eq!(TenantIdentity::Named("acme").to_bytes(), b"t\0\0\0\x04acme");
    /// assert_eq!(TenantIdentity::Untenanted.to_bytes(), b"u");
    /// ```
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes);
        bytes
    }

    fn write_to(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Named(name) => write_part(bytes, b't', name),
            Self::Untenanted => bytes.push(b'u'),
        }
    }
}

/// The identity of a limit's state, with the names that its [`Place`] calls for and no others.
///
/// ```
/// use sluicegate_limits::{StateKey, TenantIdentity};
///
/// let tenant = TenantIdentity::Named("acme");
/// let one = StateKey::AgentTool { tenant, agent: "a", tool: "b:c" };
/// let other = StateKey::AgentTool { tenant, agent: "a:b", tool: "c" };
/// assert_ne!(one.to_bytes(0), other.to_bytes(0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields are the names of what they are called")]
pub enum StateKey<'a> {
    /// The whole server.
    Server,
    /// A tool, for all tenants together.
    ServerTool { tool: &'a str },
    /// A tenant.
    Tenant { tenant: TenantIdentity<'a> },
    /// A tool of a tenant.
    TenantTool { tenant: TenantIdentity<'a>, tool: &'a str },
    /// An agent.
    Agent { tenant: TenantIdentity<'a>, agent: &'a str },
    /// An API key of an agent.
    AgentKey { tenant: TenantIdentity<'a>, agent: &'a str, key: &'a str },
    /// A tool of an agent.
    AgentTool { tenant: TenantIdentity<'a>, agent: &'a str, tool: &'a str },
    /// An agent's requests that are not tool calls.
    AgentRequests { tenant: TenantIdentity<'a>, agent: &'a str },
}

impl<'a> StateKey<'a> {
    /// The key of a place, out of all the names of a call; it takes those that the place calls for.
    ///
    /// ```
    /// use sluicegate_limits::{Place, StateKey, TenantIdentity};
    ///
    /// let tenant = TenantIdentity::Named("acme");
    /// let key = StateKey::of(Place::Agent, tenant, "u-42", "", "export");
    /// assert_eq!(key, StateKey::Agent { tenant, agent: "u-42" });
    /// ```
    #[must_use]
    pub const fn of(place: Place, tenant: TenantIdentity<'a>, agent: &'a str, key: &'a str, tool: &'a str) -> Self {
        match place {
            Place::Server => Self::Server,
            Place::ServerTool => Self::ServerTool { tool },
            Place::Tenant => Self::Tenant { tenant },
            Place::TenantTool => Self::TenantTool { tenant, tool },
            Place::Agent => Self::Agent { tenant, agent },
            Place::AgentKey => Self::AgentKey { tenant, agent, key },
            Place::AgentTool => Self::AgentTool { tenant, agent, tool },
            Place::AgentRequests => Self::AgentRequests { tenant, agent },
        }
    }

    /// The key of the `ordinal`-th limit in this place as bytes, injective over all keys and ordinals.
    ///
    /// ```
    /// use sluicegate_limits::{StateKey, TenantIdentity};
    ///
    /// let key = StateKey::Agent { tenant: TenantIdentity::Untenanted, agent: "u-42" };
    /// assert_eq!(key.to_bytes(1), b"\x04\x01ua\0\0\0\x04u-42");
    /// ```
    #[must_use]
    pub fn to_bytes(&self, ordinal: u8) -> Vec<u8> {
        use crate::Place;
        let place = match self {
            Self::Server => Place::Server,
            Self::ServerTool { .. } => Place::ServerTool,
            Self::Tenant { .. } => Place::Tenant,
            Self::TenantTool { .. } => Place::TenantTool,
            Self::Agent { .. } => Place::Agent,
            Self::AgentKey { .. } => Place::AgentKey,
            Self::AgentTool { .. } => Place::AgentTool,
            Self::AgentRequests { .. } => Place::AgentRequests,
        };
        let mut bytes = vec![place as u8, ordinal];
        match *self {
            Self::Server => {}
            Self::ServerTool { tool } => write_part(&mut bytes, b'o', tool),
            Self::Tenant { tenant } => tenant.write_to(&mut bytes),
            Self::TenantTool { tenant, tool } => {
                tenant.write_to(&mut bytes);
                write_part(&mut bytes, b'o', tool);
            }
            Self::Agent { tenant, agent } | Self::AgentRequests { tenant, agent } => {
                tenant.write_to(&mut bytes);
                write_part(&mut bytes, b'a', agent);
            }
            Self::AgentKey { tenant, agent, key } => {
                tenant.write_to(&mut bytes);
                write_part(&mut bytes, b'a', agent);
                write_part(&mut bytes, b'k', key);
            }
            Self::AgentTool { tenant, agent, tool } => {
                tenant.write_to(&mut bytes);
                write_part(&mut bytes, b'a', agent);
                write_part(&mut bytes, b'o', tool);
            }
        }
        bytes
    }
}

/// A tag, the length as four bytes, the name. Names are far shorter than 4 GiB; a longer one would be cut, so it panics.
fn write_part(bytes: &mut Vec<u8>, tag: u8, name: &str) {
    let length = u32::try_from(name.len()).expect("a name is shorter than 4 GiB");
    bytes.push(tag);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(name.as_bytes());
}
