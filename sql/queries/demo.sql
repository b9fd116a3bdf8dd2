-- name: blocks_by_stretch
-- How much is in each stretch of 5,000 blocks?
select
    b.number / 5000 * 5000 as from_block,
    count(*) as blocks,
    count(*) filter (where t.transactions > 0) as with_transactions,
    coalesce(sum(t.transactions), 0)::bigint as transactions
from {schema}.blocks as b
left join lateral (
    select count(*) as transactions
    from {schema}.transactions as t
    where t.block_number = b.number
) as t on true
group by 1
order by 1
limit 10;

-- name: busiest_contracts
-- Which contracts emit most of the logs, and how many kinds of event?
select
    '0x' || encode(address, 'hex') as contract,
    count(*) as logs,
    count(distinct topic0) as events
from {schema}.logs
group by address
order by logs desc, contract
limit 5;

-- name: costliest_transactions
-- Which transactions paid most, and did they succeed?
select
    t.block_number,
    '0x' || left(encode(t.hash, 'hex'), 16) || '…' as transaction,
    r.status,
    round(r.gas_used * r.effective_gas_price / 1e18, 6) as fee_ether
from {schema}.receipts as r
inner join {schema}.transactions as t
    using (block_number, transaction_index)
order by r.gas_used * r.effective_gas_price desc nulls last, t.block_number
limit 5;
